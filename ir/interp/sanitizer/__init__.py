"""What the interpreter reports of a run: races, missing barriers, loops without end."""
