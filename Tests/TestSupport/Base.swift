// Clocks and seeded random numbers, which tests of every module use.
@_exported import OpportuneBase
