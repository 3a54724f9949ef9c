"""An uploaded file as an image, or one sentence that says why not; its size is known before it is decoded."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from discern.types import UserError

MAX_BYTES = 10 * 2**20
MAX_PIXELS = 4096 * 4096
LARGEST = "4,096 × 4,096"
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
PLAIN = ("RGB", "L", "1", "P")
WITH_ALPHA = ("RGBA", "LA", "PA")


def read_upload(path: str | Path) -> tuple[np.ndarray, str]:
    """uint8 [H, W, 3], and what had to be converted in words; a UserError for what is no picture for an agent."""
    size = Path(path).stat().st_size
    if size > MAX_BYTES:
        raise UserError(f"the file has {size / 2**20:.0f} MB: at most {MAX_BYTES // 2**20} MB are read")
    try:
        image = Image.open(path, formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UserError(f"the picture has far too many pixels: at most {LARGEST} are read") from None
    except Exception:  # hostile bytes make decoders raise anything
        raise UserError(f"this is not an image that can be read: choose one of {', '.join(FORMATS)}") from None
    with image:
        if image.width * image.height > MAX_PIXELS:
            raise UserError(f"the picture has {image.width:,} × {image.height:,} pixels: at most {LARGEST} are read")
        return _decode(image)


def _decode(image: Image.Image) -> tuple[np.ndarray, str]:
    is_deep = image.mode.startswith("I;16")
    if image.mode not in (*PLAIN, *WITH_ALPHA) and not is_deep:
        raise UserError(f"the picture has {image.mode} channels: save it as RGB, RGBA or grey")
    try:
        upright = ImageOps.exif_transpose(image)
        if is_deep:
            upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
        if image.mode in WITH_ALPHA or "transparency" in image.info:
            coloured = upright.convert("RGBA")
            flat = Image.alpha_composite(Image.new("RGBA", coloured.size, "black"), coloured)
            return np.asarray(flat.convert("RGB")), "; its transparency was laid on black"
        pixels = np.asarray(upright.convert("RGB"))
    except Exception:  # hostile bytes make decoders raise anything
        raise UserError("the picture is cut short or damaged: its pixels cannot be read") from None
    if is_deep:
        return pixels, "; its 16-bit grey was made 8-bit"
    return pixels, "" if image.mode == "RGB" else f"; its {image.mode} pixels were made RGB"
