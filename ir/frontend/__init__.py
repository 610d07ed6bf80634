"""ir/frontend"""
