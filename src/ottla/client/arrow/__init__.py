"""What needs PyArrow: columns of rows into record batches, decoded columns into Arrow arrays; imported where it is used."""
