"""A broker under everything at once for as long as one likes, with every record accounted for at the end."""
