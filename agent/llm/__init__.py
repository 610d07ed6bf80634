"""The LLM planner: prompts, the client, replies, the ledger of calls."""
