"""Copies that run beside the computation: producers, clusters, asynchronous copies."""
