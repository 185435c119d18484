"""Wavelengths in nanometres, whatever a file has them in: numbers with a unit, or bands' names that end in one."""

import re

import numpy as np

_NANOMETRES = {
    1.0: ("nanometers", "nanometres", "nanometer", "nanometre", "nm"),
    1e3: ("micrometers", "micrometres", "micrometer", "micrometre", "microns", "micron", "um", "µm", "μm"),
    1e6: ("millimeters", "millimetres", "mm"),
    1e7: ("centimeters", "centimetres", "cm"),
    1e9: ("meters", "metres", "m"),
    0.1: ("angstroms", "angstrom", "å"),
}
_FACTORS = {name: factor for factor, names in _NANOMETRES.items() for name in names}

#: The names of the units that imaging spectrometers use, in lower case.
UNITS = (*_NANOMETRES[1.0], *_NANOMETRES[1e3])
_UNSAID = (None, "", "unknown")

# No imaging spectrometer sees below 100 nm, and none beyond 100 µm.
LARGEST_IN_MICROMETRES = 100.0

# "0.42 Micrometers" at the end of a name, in brackets or not.
_CENTRE = re.compile(
    rf"[(\[]?\s*(\d+(?:\.\d*)?)\s*({'|'.join(map(re.escape, sorted(UNITS, key=len, reverse=True)))})\s*[)\]]?$", re.I
)


def centres_in(names):
    """Centres in nm that all bands' names end in, as "band 1 (0.42 Micrometers)" does; None where some do not."""
    found = [match for name in names if (match := _CENTRE.search(name or ""))]
    if not found or len(found) < len(names) or len({match[2].lower() for match in found}) > 1:
        return None
    return in_nanometres([float(match[1]) for match in found], None, found[0][2])[0]


def plain_names(names):
    """What bands are called, without the wavelengths that may follow; None where some have no name."""
    plain = [_CENTRE.sub("", name or "").strip(" ,;:-") for name in names]
    return plain if all(plain) else None


def in_nanometres(wavelengths, fwhm, unit):
    """Centres and widths in nm (None where they are of no use), and sentences on what was assumed or left out."""
    notes = []
    wavelengths, fwhm = _usable(wavelengths, "wavelengths", notes), _usable(fwhm, "fwhm", notes)
    if wavelengths is None and fwhm is None:
        return None, None, notes
    factor = _factor(unit, wavelengths, notes)
    if factor is None:
        return None, None, notes
    return *(None if values is None else values * factor for values in (wavelengths, fwhm)), notes


def _usable(values, name, notes):
    if values is None:
        return None
    values = np.asarray(values, dtype=np.float64)
    if (np.isfinite(values) & (values > 0.0)).all():
        return values
    notes.append(f"{name} are left out: some are not finite and positive")
    return None


def _factor(unit, wavelengths, notes):
    # A list of units, one a band perhaps, is no unit.
    name = None if unit is None else str(unit).strip().lower()
    if name in _FACTORS:
        return _FACTORS[name]
    if name not in _UNSAID:
        notes.append(f"wavelengths are left out: their unit is {unit!r}, which is no length")
        return None
    if wavelengths is None:
        notes.append("fwhm are left out: they have no unit, and there are no wavelengths to infer it from")
        return None
    small = wavelengths.max() < LARGEST_IN_MICROMETRES
    reach = f"{wavelengths.min():g} to {wavelengths.max():g}"
    notes.append(f"wavelengths of {reach} have no unit and are taken to be in {'micro' if small else 'nano'}metres")
    return 1e3 if small else 1.0
