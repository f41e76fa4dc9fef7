"""Every door of every service, asked as strangers ask."""
