"""Original and candidate side by side on a device, and their twins in exact arithmetic."""
