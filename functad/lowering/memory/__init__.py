"""Where results lie: buffers, results in place of operands, and one arena for all temporaries."""
