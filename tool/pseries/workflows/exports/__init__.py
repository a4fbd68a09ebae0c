"""The patched engine as wheel, sdist, kit or image."""
