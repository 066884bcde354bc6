"""The viewer of runs: pages in a browser, live and as a static export."""
