"""Networks: planes and move facts in, one logit for each legal move out, and a critic's values.

The room builds networks and gives them their first weights. It neither samples from one nor trains it.
"""
