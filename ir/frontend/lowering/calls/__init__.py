"""Lowering calls: functions of the file inlined, built-ins, lambdas, launches from a kernel."""
