"""The only place that runs git, and the only importer of GitPython."""
