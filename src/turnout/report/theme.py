"""The look of figures, on light and dark backgrounds."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"

# The hues of Okabe and Ito, which colour-blind readers can tell apart, without yellow; lightness adjusted to each background.
LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2530",
    "soft": "#5a6672",
    "faint": "#e6e9ed",
    "lines": ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#56b4e9", "#555555"],
}
DARK = {
    "paper": "#15191f",
    "ink": "#e6eaef",
    "soft": "#a3adb8",
    "faint": "#2a313a",
    "lines": ["#4aa8e0", "#ff8a3d", "#2fc79a", "#e39bc3", "#e6b84c", "#9ad4f5", "#b9bfc6"],
}

LEGEND_LABEL = 260
"""The largest width of a label in the legend, in pixels."""

DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
"""The dash patterns; the next one begins when the colours are used up."""


def config(palette: dict) -> dict:
    """Return the Vega-Lite configuration for a palette."""
    text = {"labelColor": palette["soft"], "titleColor": palette["ink"], "labelFontSize": 12, "titleFontSize": 13}
    return {
        "background": palette["paper"],
        "customFormatTypes": True,
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **text, "titleFontWeight": "normal", "gridColor": palette["faint"], "domainColor": palette["soft"],
            "tickColor": palette["soft"], "labelPadding": 6,
        },
        "axisY": {"domain": False, "ticks": False},
        "axisX": {"grid": False},
        "header": text,
        "legend": {**text, "labelColor": palette["ink"], "symbolStrokeWidth": 3, "symbolSize": 300, "labelLimit": LEGEND_LABEL},
        "title": {
            "color": palette["ink"], "subtitleColor": palette["soft"], "fontSize": 13, "subtitleFontSize": 12,
            "fontWeight": "normal",
        },
        "range": {"category": palette["lines"]},
        "style": {
            "target": {"color": palette["soft"], "strokeDash": [5, 4], "strokeWidth": 1.2},
            "bound": {"strokeDash": [4, 3], "strokeWidth": 1.1},
            "lower": {"strokeDash": [1, 3], "strokeWidth": 1.4},
            "floor": {"color": palette["soft"], "strokeDash": [1, 3], "strokeWidth": 1.2},
            "note": {"fontSize": 12, "dy": -8},
            "halo": {"color": palette["paper"], "stroke": palette["paper"], "strokeWidth": 3, "opacity": 0.75},
            "label": {"fontSize": 12, "align": "right", "dx": -4, "dy": -8},
            "hit": {"stroke": palette["paper"], "strokeWidth": 1.5, "size": 90, "filled": True, "opacity": 1},
        },
    }  # fmt: skip
