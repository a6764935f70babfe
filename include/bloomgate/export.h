/* export.h - what is visible outside the library. Nothing to read here for users. */
#ifndef BLOOMGATE_EXPORT_H
#define BLOOMGATE_EXPORT_H

#if defined(_WIN32) && defined(BG_BUILDING_SHARED)
#define BG_API __declspec(dllexport)
#elif defined(__GNUC__)
#define BG_API __attribute__((visibility("default")))
#else
#define BG_API
#endif

/* The result must be looked at: it carries an error. */
#if defined(__GNUC__)
#define BG_MUST_CHECK __attribute__((warn_unused_result))
#else
#define BG_MUST_CHECK
#endif

#endif
