"""Clusters: the allocation we are in, and a Ray on it."""
