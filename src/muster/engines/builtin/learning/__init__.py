"""From batches to better parameters: the learner and its algorithms."""
