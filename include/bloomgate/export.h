/* export.h - attributes of exported functions. Programs need not include it directly. */
#ifndef BLOOMGATE_EXPORT_H
#define BLOOMGATE_EXPORT_H

/* Marks an exported function. */
#if defined(_WIN32) && defined(BG_BUILDING_SHARED)
#define BG_API __declspec(dllexport)
#elif defined(__GNUC__)
#define BG_API __attribute__((visibility("default")))
#else
#define BG_API
#endif

/* Warns if the caller ignores the result, which may be an error. */
#if defined(__GNUC__)
#define BG_MUST_CHECK __attribute__((warn_unused_result))
#else
#define BG_MUST_CHECK
#endif

#endif
