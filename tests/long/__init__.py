"""The second tier of checks: campaigns too long for every change."""
