"""Runs made into drop-ins: one description of all variants (:mod:`.artefact`), and a writer for each target."""
