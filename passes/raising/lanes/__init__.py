"""Vectors as iterations: loops whose iterations move N consecutive elements become loops over the elements.

``scalar_lanes`` writes an iteration as scalars, a lane each; ``rolled`` finds the one lane that all of them are;
``merged_index`` makes one index of the loop's and the lane's; ``lane_loops`` puts it together for a raised kernel.
"""
