"""What people install: the wheel under every Python of this machine, the image's steps, and the files of `packaging/`."""
