"""Python API: the functions of the command line, which also accept objects in place of names."""
