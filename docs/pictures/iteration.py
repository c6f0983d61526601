"""Prints docs/pictures/iteration.svg, the way of one iteration."""

from __future__ import annotations

BOXES = (
    (20, 70, 170, "training loop", "repeats until a stop rule is met"),
    (260, 70, 190, "collector", "deals env groups to workers"),
    (540, 20, 200, "worker", "its env groups step simulators"),
    (540, 120, 200, "worker", "its env groups step simulators"),
    (260, 210, 190, "learner", "PPO, TRPO or A2C"),
    (20, 210, 170, "run folder", "metrics, checkpoints, evaluations"),
)
HEIGHT = 60
ARROWS = (
    ("M190 100L260 100", 225, 92, ""),
    ("M450 90L540 50", 486, 60, "weights"),
    ("M450 110L540 150", 0, 0, ""),
    ("M740 50L750 50L750 240L450 240", 550, 258, "fragments with advantages"),
    ("M640 180L640 240", 0, 0, ""),
    ("M355 210L355 130", 410, 175, "new weights"),
    ("M260 240L190 240", 225, 232, "a row"),
    ("M105 210L105 130", 0, 0, ""),
)


def main() -> None:
    """Print the picture."""
    print('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 770 290" font-family="sans-serif">')
    print('<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"')
    print('orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>')
    print('<rect width="770" height="290" fill="#ffffff"/>')
    for x, y, width, title, about in BOXES:
        middle = f'x="{x + width / 2}" text-anchor="middle"'
        print(f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="6" fill="#ddf4ff" stroke="#57606a"/>')
        print(f'<text {middle} y="{y + 25}" font-weight="600" font-size="15">{title}</text>')
        print(f'<text {middle} y="{y + 45}" font-size="11">{about}</text>')
    for path, x, y, label in ARROWS:
        print(f'<path d="{path}" fill="none" stroke="#57606a" stroke-width="1.5" marker-end="url(#tip)"/>')
        if label:
            print(f'<text x="{x}" y="{y}" text-anchor="middle" font-size="12">{label}</text>')
    print("</svg>")


if __name__ == "__main__":
    main()
