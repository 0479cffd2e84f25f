"""The JavaScript that draws charts on a page."""

from importlib.metadata import version

from turnout.io.atomic import default_cache, write_cache


def script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script; the script is cached, since bundling takes a second."""
    path = default_cache() / f"vega-{version('vl-convert-python')}.js"
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        # Slow to import.
        import vl_convert

        bundle = vl_convert.javascript_bundle().replace("</script", "<\\/script")
        write_cache(path, bundle.encode())
        return bundle
