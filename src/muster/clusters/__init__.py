"""Clusters: the CPUs there are, and a Ray on them."""
