"""Ideas for devices that run a kernel's loops as loops."""
