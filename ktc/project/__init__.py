"""What lies around a source that is named alone: the project that it is in, its headers, and the units that read it."""
