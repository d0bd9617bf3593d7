"""What the inspect endpoint answers: read with the rights of workers and packages, told without secrets.

Whether a caller may ask is decided in `service`, before anything is read. Nothing here can send the text of a Secret.
"""
