"""The `lower` rules of primitives whose loops take more than a line. Knows no compiler."""
