"""The interface in JSON, one module for each page: `table` has all addresses, `endpoints` what every answer shares."""
