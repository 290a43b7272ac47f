"""Draws docs/images/demo.png, the picture of README, from the result of `make demo`.

Run `make demo`, then `.venv/bin/python docs/images/draw_demo.py`. The photograph of Grace
Hopper is in the public domain.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
HEIGHT, GAP, COLORS = 240, 16, 128


def main() -> None:
    """Puts the photograph, the network's mask and the cut-out side by side."""
    photo = Image.open(ROOT / "build/downloads/matplotlib/grace_hopper.jpg").convert("RGB")
    person = Image.open(ROOT / "build/demo/person.png")
    cut_out = Image.new("RGB", person.size, "white")
    cut_out.paste(person, mask=person.getchannel("A"))
    panels = [photo, person.getchannel("A").convert("RGB"), cut_out]
    width = HEIGHT * photo.width // photo.height
    picture = Image.new("RGB", (3 * width + 2 * GAP, HEIGHT), "white")
    for i, panel in enumerate(panels):
        picture.paste(panel.resize((width, HEIGHT)), (i * (width + GAP), 0))
    path = ROOT / "docs/images/demo.png"
    picture.quantize(COLORS).save(path, optimize=True)
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
