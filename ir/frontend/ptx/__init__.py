"""Inline PTX, understood as C++ on the registers' bits where it is known exactly, else carried."""
