"""What is asked, how it is scored and how it is shown."""
