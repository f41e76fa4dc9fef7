"""java.util.regex: read into a tree (`reading`), written for an engine (`writing`), and run (`patterns`)."""
