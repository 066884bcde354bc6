"""Chat models behind an API: requests, retries, limits, prices and usage."""
