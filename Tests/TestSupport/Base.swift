// Clocks and seeded random numbers for the tests of all modules.
@_exported import OpportuneBase
