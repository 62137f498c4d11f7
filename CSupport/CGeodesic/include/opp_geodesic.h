/* Geodesics of the WGS 84 ellipsoid, by GeographicLib: Karney's algorithms, whose errors are some nanometres.
 * Latitudes and longitudes are in degrees, azimuths in degrees clockwise from north, lengths in metres. */
#ifndef OPP_GEODESIC_H
#define OPP_GEODESIC_H

#ifdef __cplusplus
extern "C" {
#endif

/* The shortest way between two places, and the direction in which it begins. */
typedef struct opp_geodesic_way {
    double metres, azimuth;
} opp_geodesic_way;
opp_geodesic_way opp_geodesic_inverse(double from_latitude, double from_longitude, double to_latitude,
                                      double to_longitude);

/* The place that lies so far away in that direction. */
typedef struct opp_geodesic_place {
    double latitude, longitude;
} opp_geodesic_place;
opp_geodesic_place opp_geodesic_direct(double latitude, double longitude, double azimuth, double metres);

#ifdef __cplusplus
}
#endif

#endif
