"""Estimates of runs before anything is asked: units, calls, tokens, cost, time and memory."""
