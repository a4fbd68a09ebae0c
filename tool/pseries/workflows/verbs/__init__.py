"""quilt's verbs, on a checkout."""
