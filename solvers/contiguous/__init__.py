"""Max-load over chains of downsets: the exact dynamic programmes (Tarnawski et al., NeurIPS 2020)."""
