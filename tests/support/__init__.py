"""What tests build: small packages, wheels, indexes."""
