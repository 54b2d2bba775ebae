"""What people ask of a policy beside its value: is it better, how bad can it get, what if the log hides something."""
