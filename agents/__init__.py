"""Who speaks: models under test and the roles that language models play."""
