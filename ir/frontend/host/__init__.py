"""Host code: launches, the instances of templates that it makes, guesses where it says nothing."""
