"""Records of topics: searched, decoded, masked, exported and replayed."""
