"""A picture as decode_picture of the suite gives it, by Pillow."""

import sys

try:
    from PIL import Image
except ImportError as error:
    print(f"{error}; to fix: ./tenfold setup tests", file=sys.stderr)
    sys.exit(77)


def open_rgb(file):
    """RGB, with what is transparent laid over white. Other pictures take Pillow's shortest way: load() and, unless they are RGB
    already, convert("RGB")."""
    picture = Image.open(file)
    picture.load()
    if picture.has_transparency_data:
        if picture.mode != "RGBA":
            picture = picture.convert("RGBA")
        white = Image.new("RGB", picture.size, "white")
        white.paste(picture, mask=picture)
        return white
    return picture if picture.mode == "RGB" else picture.convert("RGB")
