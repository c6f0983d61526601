"""Is this host, and are all hosts of this allocation, fit for training?"""
