"""Files of `windlass operator new`, one folder for each kind; data, no code.

A file is a `string.Template`: $name, $Kind, $singular, $plural and $group; ``$$`` is a dollar sign.
Its name loses ``.tmpl``.
"""
