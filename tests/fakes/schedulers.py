"""The fake schedulers by name; any other name stands for real commands that can only be made to misbehave."""

from tests.fakes import cobalt, flux, lsf, pbs

SCHEDULERS = {fake.name: fake for fake in (pbs.PBS, cobalt.COBALT, lsf.LSF, flux.FLUX)}
