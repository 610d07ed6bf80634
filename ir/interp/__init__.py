"""ir/interp"""
