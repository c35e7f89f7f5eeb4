"""Max-load over chains of downsets: the exact dynamic programs (Tarnawski et al., NeurIPS 2020)."""
