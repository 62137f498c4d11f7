// GeographicLib has no interface for C.
#include "opp_geodesic.h"

#include <GeographicLib/Geodesic.hpp>

using GeographicLib::Geodesic;

opp_geodesic_way opp_geodesic_inverse(double from_latitude, double from_longitude, double to_latitude,
                                      double to_longitude) {
    opp_geodesic_way way;
    double at_end;
    Geodesic::WGS84().Inverse(from_latitude, from_longitude, to_latitude, to_longitude, way.metres,
                              way.azimuth, at_end);
    return way;
}

opp_geodesic_place opp_geodesic_direct(double latitude, double longitude, double azimuth, double metres) {
    opp_geodesic_place place;
    Geodesic::WGS84().Direct(latitude, longitude, azimuth, metres, place.latitude, place.longitude);
    return place;
}
